"""Types of procedures, their declaration, and how they are called and run."""
