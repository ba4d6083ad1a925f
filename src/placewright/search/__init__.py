"""Methods that solve a problem: constructive heuristics, metaheuristics and exact searches; `auto` combines them."""
