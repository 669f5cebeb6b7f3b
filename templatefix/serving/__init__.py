"""How a repaired template meets a server: what starts it, and what it really does."""
