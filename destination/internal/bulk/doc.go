// Package bulk fetches the content of many resources together: out of the packages
// of a Resource Dump or Change Dump, or with one request for a package that the
// Source makes on demand. Actions whose content it cannot obtain are handed back, to
// be carried out alone.
package bulk
