// Package messages checks that docs/messages.md explains every reason that certplane
// writes into conditions and Events, and only reasons and messages that there are.
package messages

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/apitest/docpage"
)

const (
	module = "github.com/certplane/certplane/"
	page   = "../../docs/messages.md"
)

var (
	reasonPattern = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	textPattern   = regexp.MustCompile("`([^`]+)`")
	rowPattern    = regexp.MustCompile("(?m)^\\| (`[A-Z][A-Za-z]+`(?:, `[A-Z][A-Za-z]+`)*) \\|")
)

// writesNothing are folders whose packages write no conditions and Events: clients, and
// what tests use.
var writesNothing = []string{"internal/client/cli", "internal/client/explain", "internal/apitest", "internal/acme/acmetest"}

func TestReasons(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, row := range rowPattern.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			explained[strings.Trim(name, "`")] = true
		}
	}
	written := writtenReasons(t)
	if len(written) < 150 {
		t.Fatalf("only %d reasons were found in the code", len(written))
	}
	for _, reason := range slices.Sorted(maps.Keys(written)) {
		if !explained[reason] {
			t.Errorf("%s has no row for the reason %s, which is written at %s", page, reason, written[reason])
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(explained)) {
		if written[reason] == "" {
			t.Errorf("%s has a row for the reason %s, which is never written", page, reason)
		}
	}
}

// Messages of the command line and lines of the log are in the code as the page shows
// them; "..." stands for what differs.
func TestTexts(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	code := source(t)
	shown := 0
	for _, section := range docpage.Sections(string(text)) {
		if section.Heading != "Messages of the command line" && section.Heading != "Log lines" {
			continue
		}
		for row := range strings.Lines(section.Text) {
			cells := strings.Split(row, " | ")
			for _, quoted := range textPattern.FindAllStringSubmatch(cells[0], -1) {
				shown++
				for part := range strings.SplitSeq(quoted[1], "...") {
					if !strings.Contains(code, strings.TrimSpace(part)) {
						t.Errorf("%s: %q is nowhere in the code", page, part)
					}
				}
			}
		}
	}
	if shown < 20 {
		t.Errorf("%s has %d messages: are its headings others now?", page, shown)
	}
}

// source returns all code of the program.
func source(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, folder := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// writtenReasons returns where each reason is written.
func writtenReasons(t *testing.T) map[string]string {
	t.Helper()
	packages := list(t)
	fset := token.NewFileSet()
	exports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if packages[path].Export == "" {
			return nil, errors.New("no export data")
		}
		return os.Open(packages[path].Export)
	})
	c := collector{fset: fset, found: map[string]string{}}
	for _, pkg := range packages {
		folder, isOurs := strings.CutPrefix(pkg.ImportPath, module)
		if !isOurs || slices.ContainsFunc(writesNothing, func(f string) bool { return folder == f || strings.HasPrefix(folder, f+"/") }) {
			continue
		}
		var files []*ast.File
		for _, name := range pkg.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		c.info = types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := (&types.Config{Importer: exports}).Check(pkg.ImportPath, fset, files, &c.info); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			ast.Inspect(file, c.visit)
		}
	}
	return c.found
}

// list returns the packages of the program and of the library for issuers, and all that
// they import.
func list(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", module+"internal/...", module+"issuer/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]listed{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var pkg listed
		if err := decoder.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
		packages[pkg.ImportPath] = pkg
	}
	return packages
}

// collector finds constant texts that are used as reasons.
type collector struct {
	fset  *token.FileSet
	info  types.Info
	found map[string]string
}

func isReason(name string) bool { return strings.EqualFold(name, "reason") }

// visit looks at what is given to parameters and fields with the name "reason", what is
// assigned to such variables, and at constants whose names begin with it.
func (c *collector) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) && strings.HasPrefix(strings.ToLower(name.Name), "reason") {
				c.add(n.Values[i])
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if len(n.Rhs) == len(n.Lhs) && isReason(nameOf(left)) {
				c.add(n.Rhs[i])
			}
		}
	case *ast.KeyValueExpr:
		if isReason(nameOf(n.Key)) {
			c.add(n.Value)
		}
	case *ast.CallExpr:
		signature, ok := c.info.Types[n.Fun].Type.(*types.Signature)
		for i := 0; ok && i < min(signature.Params().Len(), len(n.Args)); i++ {
			if isReason(signature.Params().At(i).Name()) {
				c.add(n.Args[i])
			}
		}
	}
	return true
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func (c *collector) add(e ast.Expr) {
	value := c.info.Types[e]
	if value.Value == nil || value.Value.Kind() != constant.String || strings.HasSuffix(value.Type.String(), ".StatusReason") {
		return
	}
	if text := constant.StringVal(value.Value); reasonPattern.MatchString(text) {
		c.found[text] = c.fset.Position(e.Pos()).String()
	}
}
