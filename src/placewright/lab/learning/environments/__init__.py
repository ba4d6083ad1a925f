"""What a guide is worth: one file per way to find out."""
