"""ColocRL's learning by several controllers: a parameter server, controllers and their workers as actors."""
