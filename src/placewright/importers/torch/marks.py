"""Marks in the nodes of a captured step that record the intent of a rewriting."""

#: On a node whose first operand is needed by nothing else, so that the result may take its memory.
IN_PLACE = "placewright_in_place"
#: On a node that runs in a part of a split: which one.
PART = "placewright_part"
#: On a module with a stretch in parts: which one, and how many parts.
SPLIT = "placewright_split"
