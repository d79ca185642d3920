// Package pages lists objects of an API a page at a time, so that a client holds
// one page of them.
package pages

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// size is how many objects an API is asked for at once.
const size = 500

// Each calls take with each page of the objects of which empty is a list. It ends
// with the first error.
func Each[L client.ObjectList](ctx context.Context, api client.Reader, empty L, take func(page L) error) error {
	for next := ""; ; {
		// A list that is read again keeps what the answer leaves out, and at the end
		// that is the token of the next page.
		page := empty.DeepCopyObject().(L)
		if err := api.List(ctx, page, client.Limit(size), client.Continue(next)); err != nil {
			return err
		}
		if err := take(page); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
