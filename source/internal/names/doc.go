// Package names determines the names of documents and packages, which are also
// their addresses below the base URL, and the names of files within packages.
// No other package of the Source knows them.
package names
