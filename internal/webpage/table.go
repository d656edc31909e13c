package webpage

// A Table is shown by the template "table".
type Table struct {
	Caption string
	Columns []Column
	Rows    []Row
	Empty   string // what is shown in place of a table without rows
	Pager   *Pager // may be nil
}

// A Column is one of a Table.
type Column struct {
	Title   string
	Numeric bool   // aligned at its end
	Wide    bool   // prose, which has room for a few words beside each other on small screens
	Sort    string // the address of the table sorted by this column; "": it cannot be
	Sorted  string // "ascending" or "descending" if the table is sorted by this column
	Short   bool   // its cells are short, and not divided into lines
}

// A Row is one of a Table, with a Cell for each Column.
type Row struct {
	Cells []Cell
	Mark  string // "good", "bad" or "warn"; may be empty
}

// A Cell is one of a Row.
type Cell struct {
	Text  string
	Href  string // where Text leads to; may be empty
	Title string // a longer form of the text, for assistive technology and as a tooltip; may be empty
	Code  bool   // Text is an address, a name or a value, not prose
}

// Cells returns a cell for each text.
func Cells(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	return cells
}

// A Pager leads to the pages before and after the one that is shown. It is shown by
// the template "pager".
type Pager struct {
	Label    string // which rows of how many are shown
	First    string // addresses; empty where there is no such page
	Previous string
	Next     string
	Last     string
}

// A Fact is a name with its value. Several are shown by the template "facts".
type Fact struct {
	Name  string
	Value string
	Href  string // where Value leads to; may be empty
	Code  bool   // Value is an address, a name or a hash, not prose
	Live  bool   // events of the page renew it
}

// A Notice is a sentence that is set apart, shown by the template "notice".
type Notice struct {
	Kind   string // "info", "good", "warn" or "bad"
	Text   string
	Remedy string // what to do about it; may be empty
	Action *Action
}

// An Action is a button that sends a form to Href, by POST unless Get is set.
type Action struct {
	Text   string
	Href   string
	Get    bool
	Fields []Field
}

// A Field is a hidden field of an Action.
type Field struct{ Name, Value string }
