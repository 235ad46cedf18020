"""The controllers that DYNAMITE is compared with, one file per paper."""
