package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxMethods is the maximum number of methods of a type. A type with more has several jobs:
// split it into a type for each job, and turn methods that need no receiver into functions.
const maxMethods = 40

// largeTypes are the types with more methods, by package, with their limit. Lower the limit
// when a type shrinks.
var largeTypes = map[string]int{
	"internal/client/console.user":        57,
	"internal/policy/challenge.Situation": 41,
}

// maxParameters is the maximum number of parameters of a constructor. One with more should
// take a struct, whose fields are named at the call.
const maxParameters = 5

// constructors matches the names of functions that make something.
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
			t.Errorf("%s has %d methods, more than %d: split it by responsibility", name, n, most)
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

// function is a function of the product that is not generated.
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
