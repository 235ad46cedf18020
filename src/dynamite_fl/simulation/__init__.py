"""Devices on one machine or on Ray, in virtual time."""
