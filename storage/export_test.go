package storage

import (
	"fmt"

	"lockstep/storage/internal/tables"
)

// NotCopied returns the tables that are not copied.
func NotCopied() []string { return tables.Left() }

// Columns returns the columns of the tables that are copied, by table: a line for each.
func Columns() map[string]string {
	all := map[string]string{}
	for _, t := range tables.All() {
		for i, c := range append(t.Key[:len(t.Key):len(t.Key)], t.Columns...) {
			mark := ""
			if i < len(t.Key) {
				mark = fmt.Sprint("key", i+1)
			}
			all[t.Name] += fmt.Sprintf("%s %s%s\n", c.Name, [...]string{"text", "number", "bytes"}[c.Type], mark)
		}
	}
	return all
}
