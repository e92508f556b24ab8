"""What can be done with a component: read, modify, and ask about its versions."""
