package podsync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/agent/safepath"
)

// checkFolder returns an error if a user other than root and the agent's user could replace
// the folder: the agent writes there with the rights of its user. If the folder does not
// exist, it checks the existing folder above it.
func checkFolder(dir string) error {
	existing := dir
	for {
		_, err := os.Lstat(existing)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		existing = filepath.Dir(existing)
	}
	_, strangers, err := safepath.Rule{PrivateGroup: true}.Dir(existing)
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	if len(strangers) > 0 {
		return fmt.Errorf("directory %s: %s belongs to user %d, who could redirect what is written there: give it to root or to the agent's user with 'chown' (the files can belong to another user: owner)",
			dir, strangers[0].Path, strangers[0].UID)
	}
	return nil
}
