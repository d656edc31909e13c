// Package status finds out how services and mirrors are: it asks processes, through their
// admin sockets or at their addresses, and reads the state of mirrors on which no process works.
package status
