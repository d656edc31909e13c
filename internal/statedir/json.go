package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lockstep/internal/private"
)

// ReadJSON reads the file at path into v, which it leaves as it is if there is no
// such file.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// WriteJSON replaces the file at path, whole and durably.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err == nil {
		err = private.Replace(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
