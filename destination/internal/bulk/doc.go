// Package bulk fetches the content of many resources together: out of the packages
// of a Resource Dump or Change Dump, or with one request for a package that the
// Source makes on demand. It returns actions whose content it cannot obtain to the
// caller, which then requests each on its own.
package bulk
