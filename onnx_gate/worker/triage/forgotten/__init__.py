"""Steps of a model that people forget on one side: the first ones and the last ones."""
