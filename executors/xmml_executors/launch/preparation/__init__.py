"""What a site needs before its job is submitted: programs built, images and a Python that fit."""
