package discover

import "time"

var (
	ParseRobots = parseRobots
	ParseHTML   = parseHTML
)

// SetSetTime sets how long a document that leads to a set may take while others wait, until
// the function is called that it returns.
func SetSetTime(d time.Duration) (restore func()) {
	was := setTime
	setTime = d
	return func() { setTime = was }
}
