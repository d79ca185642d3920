package apitest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Table requests the path as kubectl does and returns the columns that it
// shows, one line per row.
func Table(t testing.TB, cfg *rest.Config, path string) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	body, err := client.Discovery().RESTClient().Get().RequestURI(path).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("getting the table of %s: %v", path, err)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatalf("reading the table of %s: %v", path, err)
	}
	var names []any
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	out := line(table, names)
	for _, row := range table.Rows {
		out += line(table, row.Cells)
	}
	return out
}

func line(table metav1.Table, cells []any) string {
	var shown []string
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			shown = append(shown, fmt.Sprint(cells[i]))
		}
	}
	return strings.Join(shown, "|") + "\n"
}
