package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxMethods is how many methods a type may have. One with more has several jobs: each
// becomes a type with what it needs, and what needs no receiver becomes a function.
const maxMethods = 40

// largeTypes are the types with more methods, by package, with the number that they may
// have: make it smaller with the type.
var largeTypes = map[string]int{
	"internal/policies.Policies":          70,
	"internal/console.user":               57,
	"internal/inventory.Inventory":        49,
	"internal/policy/challenge.Situation": 41,
}

// maxParameters is how many parameters a constructor may have. One with more takes a
// struct, whose fields have names where it is called.
const maxParameters = 5

// constructors are the functions that make something, by their names.
var constructors = regexp.MustCompile(`^([Nn]ew|[Oo]pen|[Mm]ake|[Ss]tart|[Aa]ssemble)([A-Z]|$)`)

func TestTypesHaveFewMethods(t *testing.T) {
	methods := map[string]int{}
	for _, f := range functions(t) {
		if f.Recv != nil {
			methods[f.folder+"."+receiver(f.Recv.List[0].Type)]++
		}
	}
	for name, n := range methods {
		if most := max(maxMethods, largeTypes[name]); n > most {
			t.Errorf("%s has %d methods, more than %d: split it by what it is responsible for", name, n, most)
		}
	}
	for name := range largeTypes {
		if methods[name] <= maxMethods {
			t.Errorf("%s has %d methods: remove it from the list", name, methods[name])
		}
	}
}

func TestConstructorsHaveFewParameters(t *testing.T) {
	for _, f := range functions(t) {
		if n := f.Type.Params.NumFields(); f.Recv == nil && n > maxParameters && constructors.MatchString(f.Name.Name) {
			t.Errorf("%s.%s has %d parameters, more than %d: give it a struct", f.folder, f.Name.Name, n, maxParameters)
		}
	}
}

// function is one of the product that is not generated.
type function struct {
	*ast.FuncDecl
	folder string
}

func functions(t *testing.T) []function {
	t.Helper()
	var all []function
	for _, s := range parseSources(t) {
		if strings.HasPrefix(path.Base(s.path), "zz_generated") || under(s.path, "internal/generated") {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				all = append(all, function{f, path.Dir(s.path)})
			}
		}
	}
	return all
}

// receiver returns the name of the type of a receiver.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.ParenExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	}
	return ""
}
