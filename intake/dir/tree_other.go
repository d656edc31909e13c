//go:build !linux

package dir

import "os"

func openTree(root string) (tree, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	return &rootTree{root: r}, nil
}
