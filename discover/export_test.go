package discover

var (
	ParseRobots = parseRobots
	ParseHTML   = parseHTML
)
