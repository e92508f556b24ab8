"""Units: their rows, how their statistics roll up, and the totals that incremental runs continue from."""
