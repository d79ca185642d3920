package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// use says which names of a package only some code may use.
type use struct {
	of     string // a package
	names  []string
	reason string
	// only are the folders and files that may use the names, with the reason.
	only map[string]string
}

var uses = []use{
	{
		of: "crypto/x509", names: []string{"CreateCertificate"},
		reason: "what leaves a CA has been linted: use pki.Authority.Lint and sign what it returns",
		only:   map[string]string{"internal/pki/encode.go": "encodes what is linted"},
	},
	{
		of: "crypto", names: []string{"SignMessage"},
		reason: "the keys of CAs are used in one place, which the recorder knows of",
		only:   map[string]string{"internal/pki/sign.go": "signs what is linted, and records it"},
	},
	{
		of: module + "internal/pki", names: []string{"Unrecorded", "UnrecordedSigning"},
		reason: "what leaves a CA is recorded: pass pki.Issuing on",
		only: map[string]string{
			"internal/pki/record.go":              "defines them",
			"internal/explain/signing.go":       "signs to learn what a signer would say; the CA and the certificate are discarded",
			"internal/issuing/temporary.go": "the CA exists for one certificate, which no verifier trusts",
		},
	},
}

func TestUses(t *testing.T) {
	sources := parseSources(t)
	for _, u := range uses {
		needed := map[string]bool{}
		for _, s := range sources {
			for _, where := range s.selectors(u.of, u.names) {
				allowed := u.allowed(s.path)
				needed[allowed] = true
				if allowed == "" {
					t.Errorf("%s: %s", where, u.reason)
				}
			}
		}
		for allowed := range u.only {
			if !needed[allowed] {
				t.Errorf("%s no longer uses %v of %s: remove it from the list", allowed, u.names, u.of)
			}
		}
	}
}

// allowed returns what allows the use in a file, or "".
func (u use) allowed(file string) string {
	for folder := range u.only {
		if under(file, folder) {
			return folder
		}
	}
	return ""
}

// source is a file of the product.
type source struct {
	path string // in the module
	file *ast.File
	set  *token.FileSet
}

// parseSources returns the files of the product: no tests, and no programs that
// are only for tests and development.
func parseSources(t *testing.T) []source {
	t.Helper()
	var sources []source
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(root, name)
		relative = filepath.ToSlash(relative)
		switch {
		case entry.IsDir() && slices.Contains([]string{".git", "bench", "examples", "hack", "test"}, relative):
			return filepath.SkipDir
		case entry.IsDir() && strings.HasSuffix(path.Base(relative), "test"): // helpers of tests
			return filepath.SkipDir
		case entry.IsDir() || path.Ext(relative) != ".go" || strings.HasSuffix(relative, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		sources = append(sources, source{path: relative, file: file, set: set})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// selectors returns where a file uses names of a package, which may be its own.
func (s source) selectors(of string, names []string) []string {
	name, own := s.importName(of), of == module+path.Dir(s.path)
	var where []string
	add := func(used *ast.Ident) {
		if slices.Contains(names, used.Name) {
			where = append(where, s.path+":"+strconv.Itoa(s.set.Position(used.Pos()).Line)+" uses "+used.Name)
		}
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			if own {
				add(node)
			}
		case *ast.SelectorExpr:
			if from, ok := node.X.(*ast.Ident); ok && from.Name == name {
				add(node.Sel)
			}
		}
		return true
	})
	return where
}

// importName returns the name under which a file imports a package, or "".
func (s source) importName(of string) string {
	for _, imported := range s.file.Imports {
		if quoted, _ := strconv.Unquote(imported.Path.Value); quoted != of {
			continue
		}
		if imported.Name != nil {
			return imported.Name.Name
		}
		if base := path.Base(of); base != "v2" {
			return base
		}
		return path.Base(path.Dir(of))
	}
	return ""
}
