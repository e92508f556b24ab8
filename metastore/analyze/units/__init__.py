"""Units: their rows, how statistics roll up, and the states that increments go on from."""
