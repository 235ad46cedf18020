"""An app of one's own, with DYNAMITE inside."""
