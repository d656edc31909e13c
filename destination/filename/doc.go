// Package filename maps the URIs of resources to the names of their files in a
// mirror, and back.
package filename
