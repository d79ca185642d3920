package kind

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Table defines how kubectl shows objects of type T.
type Table[T any] struct {
	Columns []metav1.TableColumnDefinition
	// Cells has one entry for each column.
	Cells func(obj *T, now time.Time) []any
}

// Name returns the column of objects' names.
func Name() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// AgeColumn returns the column for Age.
func AgeColumn() metav1.TableColumnDefinition {
	return Column("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// Column returns a column of strings.
func Column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// Wide returns a column that only "kubectl get -o wide" shows.
func Wide(name, description string) metav1.TableColumnDefinition {
	column := Column(name, description)
	column.Priority = 1
	return column
}

// Age returns how long ago something happened, in readable form.
func Age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// orDefault returns t, or a table with the names and ages of objects.
func (t Table[T]) orDefault() Table[T] {
	if t.Cells != nil {
		return t
	}
	return Table[T]{
		Columns: []metav1.TableColumnDefinition{Name(), AgeColumn()},
		Cells: func(obj *T, now time.Time) []any {
			metadata := any(obj).(metav1.Object)
			return []any{metadata.GetName(), Age(metadata.GetCreationTimestamp(), now)}
		},
	}
}

// ConvertToTable implements rest.TableConvertor for objects and lists.
func (t Table[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	now := time.Now()
	rows, err := metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, _, _ string) ([]any, error) {
		typed, ok := any(obj).(*T)
		if !ok {
			return nil, fmt.Errorf("unexpected type %T", obj)
		}
		return t.Cells(typed, now), nil
	})
	if err != nil {
		return nil, fmt.Errorf("making a table: %w", err)
	}
	out := &metav1.Table{Rows: rows}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		out.ColumnDefinitions = t.Columns
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion = list.GetResourceVersion()
		out.Continue = list.GetContinue()
		out.RemainingItemCount = list.GetRemainingItemCount()
	} else if object, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = object.GetResourceVersion()
	}
	return out, nil
}
