// Package pages lists objects of an API a page at a time, so that a client holds
// one page of them.
package pages

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// size is the number of objects in a page.
const size = 500

// Each calls take with each page of objects; empty is a list of their kind. It stops at
// the first error.
func Each[L client.ObjectList](ctx context.Context, api client.Reader, empty L, take func(page L) error) error {
	for next := ""; ; {
		// Decoding into a used list keeps fields that are absent in the answer: at the
		// end, this would be the token of the next page.
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
