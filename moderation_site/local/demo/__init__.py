"""The traffic of `up --demo`: made-up people in made-up groups, some of them a nuisance."""
