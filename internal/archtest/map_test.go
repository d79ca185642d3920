package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxMap is the size of ARCHITECTURE.md in bytes. A longer page is not read: details
// belong to comments of packages, and recipes to docs/extending.md.
const maxMap = 25_000

const root = "../.."

// The map stays short, and has a row for each folder under internal.
func TestMap(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > maxMap {
		t.Errorf("ARCHITECTURE.md has %d bytes, more than %d", len(text), maxMap)
	}
	folders, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if row := regexp.MustCompile("(?m)^\\| [^|]*`" + folder.Name() + "`"); folder.IsDir() && !row.Match(text) {
			t.Errorf("ARCHITECTURE.md has no row for internal/%s", folder.Name())
		}
	}
}

// Paths in the documentation exist.
func TestDocumentedPaths(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"} {
		pages = append(pages, filepath.Join(root, name))
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		// On these pages, paths are below internal, and files in the folder named before them.
		isMap := filepath.Base(page) == "ARCHITECTURE.md" || filepath.Base(page) == "extending.md"
		folder := ""
		for line := range strings.Lines(codeBlock.ReplaceAllString(string(text), "")) {
			if newBlock.MatchString(line) {
				folder = ""
			}
			for _, quoted := range quotedWord.FindAllStringSubmatch(line, -1) {
				word := quoted[1]
				isPath := ownPath.MatchString(word)
				if isMap {
					isPath = mapPath.MatchString(word)
				}
				at, exists := locate(word, folder, isMap)
				switch {
				case exists:
					folder = at
				case isPath:
					t.Errorf("%s: %s does not exist: %s", page, word, strings.TrimSpace(line))
				}
				if isPath {
					found++
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d paths were found: is the documentation written otherwise now?", found)
	}
}

var (
	codeBlock  = regexp.MustCompile("(?s)```.*?```")
	newBlock   = regexp.MustCompile(`^(\||- |\d+\. |#|\s*$)`)
	quotedWord = regexp.MustCompile("`([^`\\s]+)`")
	// ownPath matches a path of this repository.
	ownPath = regexp.MustCompile(`^(cmd|internal|deploy|hack|bench|examples|venafi)/[\w./-]+$`)
	// mapPath matches a path on the map: a folder in another one, or a file.
	mapPath = regexp.MustCompile(`^(\w+/[\w./-]+|\w+\.(go|md|sh|yaml))$`)
)

// locate returns the folder of an existing path: the path itself, or that in which
// a file is. folder is the one named before.
func locate(word, folder string, isMap bool) (at string, exists bool) {
	candidates := []string{word}
	if isMap {
		candidates = []string{path.Join("internal", word), word}
		if folder != "" && !strings.Contains(word, "/") {
			candidates = append([]string{path.Join(folder, word)}, candidates...)
		}
	}
	for _, candidate := range candidates {
		info, err := os.Stat(filepath.Join(root, candidate))
		switch {
		case err != nil:
		case info.IsDir():
			return candidate, true
		default:
			return path.Dir(candidate), true
		}
	}
	return "", false
}
