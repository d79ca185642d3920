package pages_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/policy/pages"
)

// paged answers as an API server does: what is empty is not in the answer.
type paged struct{ client.Reader }

var answers = map[string]string{
	"":  `{"metadata": {"continue": "a"}, "items": [{"metadata": {"name": "one", "labels": {"x": "y"}}}, {"metadata": {"name": "two"}}]}`,
	"a": `{"metadata": {"continue": "b"}, "items": [{"metadata": {"name": "three"}}]}`,
	"b": `{"items": [{"metadata": {"name": "four"}}]}`,
}

func (paged) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	return json.Unmarshal([]byte(answers[asked.Continue]), list)
}

// Each page has its own objects alone, and the last page is the end.
func TestEach(t *testing.T) {
	var names []string
	err := pages.Each(t.Context(), paged{}, &corev1.NodeList{}, func(page *corev1.NodeList) error {
		for _, node := range page.Items {
			names = append(names, node.Name)
			if len(node.Labels) > 0 != (node.Name == "one") {
				t.Errorf("%s has the labels %v", node.Name, node.Labels)
			}
		}
		if len(names) > 4 {
			t.Fatalf("it does not end: %v", names)
		}
		return nil
	})
	if want := []string{"one", "two", "three", "four"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v, want %v", names, err, want)
	}
}
