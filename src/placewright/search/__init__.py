"""What solves a problem: how a search runs, constructive heuristics, metaheuristics, exact searches; `auto` puts them
together."""
