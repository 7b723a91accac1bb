"""What asks for work: Kafka offsets for bronze, silver and backup; schedules for the checks."""
