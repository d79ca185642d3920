// Command configdoc prints a default configuration of the given kind as a
// commented YAML file. The comments are the doc comments of the Go fields.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

const module = "github.com/certplane/certplane/"

// document is a kind of configuration.
type document struct {
	verb     string
	defaults any
}

var documents = map[string]document{
	"ServerConfiguration":      {"serve", server.DefaultConfig()},
	"ControllersConfiguration": {"controllers", cluster.DefaultConfig()},
	"AgentConfiguration":       {"agent", agent.DefaultConfig()},
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: configdoc KIND")
	}
	doc, ok := documents[os.Args[1]]
	if !ok {
		log.Fatalf("configdoc: unknown kind of configuration %q", os.Args[1])
	}
	p := printer{out: os.Stdout, docs: map[reflect.Type]fieldDocs{}}
	fmt.Fprintf(p.out, "# The configuration of \"certplane %s\" with every default.\n", doc.verb)
	fmt.Fprintln(p.out, "# Durations are numbers with units, such as 30d, 12h, 1h30m or 500ms.")
	if err := p.object(reflect.ValueOf(doc.defaults), ""); err != nil {
		log.Fatalf("configdoc: %v", err)
	}
}

// fieldDocs maps the names of a struct's Go fields to their doc comments.
type fieldDocs map[string]string

type printer struct {
	out  io.Writer
	docs map[reflect.Type]fieldDocs
}

// object prints the fields of a struct, each below its comment.
func (p printer) object(v reflect.Value, indent string) error {
	docs, err := p.docsOf(v.Type())
	if err != nil {
		return err
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			if err := p.object(v.Field(i), indent); err != nil {
				return err
			}
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" { // no field of the file
			continue
		}
		doc := docs[field.Name]
		if doc == "" {
			return fmt.Errorf("field %s of %s has no doc comment", field.Name, v.Type())
		}
		fmt.Fprintln(p.out)
		if more, ok := v.Field(i).Interface().(interface{ Doc() string }); ok {
			doc += more.Doc()
		}
		for line := range strings.Lines(doc) {
			fmt.Fprintf(p.out, "%s# %s\n", indent, strings.TrimSpace(line))
		}
		if err := p.field(name, v.Field(i), indent); err != nil {
			return err
		}
	}
	return nil
}

// field prints one field. A field without a default is shown commented out.
func (p printer) field(name string, v reflect.Value, indent string) error {
	data, err := yaml.Marshal(v.Interface())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	text := strings.TrimSpace(string(data))
	if length, ok := v.Interface().(metav1.Duration); ok {
		text = duration.Format(length.Duration)
	}
	switch {
	case v.Kind() == reflect.Struct && strings.Contains(v.Type().PkgPath()+"/", module):
		fmt.Fprintf(p.out, "%s%s:\n", indent, name)
		return p.object(v, indent+"  ")
	case v.Kind() == reflect.Slice && v.Len() == 0:
		fmt.Fprintf(p.out, "%s# %s: []\n", indent, name)
	case v.IsZero():
		fmt.Fprintf(p.out, "%s# %s: %s\n", indent, name, text)
	case v.Kind() == reflect.Map || v.Kind() == reflect.Slice:
		text = strings.ReplaceAll(text, "\n", "\n"+indent+"  ")
		fmt.Fprintf(p.out, "%s%s:\n%s  %s\n", indent, name, indent, text)
	default:
		fmt.Fprintf(p.out, "%s%s: %s\n", indent, name, text)
	}
	return nil
}

// docsOf reads the doc comments of a struct of this module from its source.
func (p printer) docsOf(t reflect.Type) (fieldDocs, error) {
	if docs, ok := p.docs[t]; ok {
		return docs, nil
	}
	dir := filepath.FromSlash(strings.TrimPrefix(t.PkgPath(), module))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	docs := fieldDocs{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("reading the comments of %s: %w", t, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if ok && spec.Name.Name == t.Name() {
				collect(docs, spec)
			}
			return !ok
		})
	}
	p.docs[t] = docs
	return docs, nil
}

func collect(docs fieldDocs, spec *ast.TypeSpec) {
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range body.Fields.List {
		for _, name := range field.Names {
			docs[name.Name] = field.Doc.Text()
		}
	}
}
