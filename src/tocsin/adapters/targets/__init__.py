"""What jobs call. Knows no other adapter; each kind of target is a module that fulfils ``ports.targets``."""
