package lean

import (
	"context"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/duration"
)

func (d *definition) compileTable(group string) error {
	shown := columns(d.version)
	table, err := tableconvertor.New(shown)
	if err != nil {
		return err
	}
	d.table = table
	if group != v1alpha1.GroupVersion.Group {
		return nil
	}
	readable := readableTable{table, map[int]func(string) string{}}
	for i, column := range shown {
		if text, ok := cellTexts[column.Name]; ok {
			readable.texts[i+1] = text // the name of the object comes first
		}
	}
	d.table = readable
	return nil
}

// cellTexts are the columns of certplane's own kinds that tables show in another form than
// objects have: lengths with days, and days without a time.
var cellTexts = map[string]func(string) string{
	"Lifetime":  duration.Readable,
	"Last Seen": func(text string) string { return strings.TrimSuffix(text, "T00:00:00Z") },
}

// readableTable converts objects of certplane's own kinds.
type readableTable struct {
	rest.TableConvertor
	texts map[int]func(string) string // by column
}

// ConvertToTable implements rest.TableConvertor. Tables of watches have no headers.
func (t readableTable) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table, err := t.TableConvertor.ConvertToTable(ctx, object, options)
	if err != nil {
		return nil, err
	}
	for _, row := range table.Rows {
		for i, readable := range t.texts {
			if text, ok := row.Cells[i].(string); ok {
				row.Cells[i] = readable(text)
			}
		}
	}
	return table, nil
}
