// Package distcheck checks what tools/dist has built: the packages are installed into
// clean roots, the commands of their units run as their user, a guide is followed on a
// machine of its own, the image runs in its own root, and the program is measured
// against its budgets.
//
//	go test -C tools -v ./distcheck -dist DIR
//
// tools/packages.sh builds DIR first. What this machine cannot do is skipped, and the
// reason is printed.
package distcheck
