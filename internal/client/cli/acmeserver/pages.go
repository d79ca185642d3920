package acmeserver

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages reads a list page by page, up to maxCounted objects, and sets more if the list is
// longer. each returns the number of objects in a page. pages skips a list that the
// caller may not read.
func pages(ctx context.Context, c client.Client, list client.ObjectList, more *bool, each func(client.ObjectList) int, options ...client.ListOption) error {
	for seen := 0; ; {
		page := list.DeepCopyObject().(client.ObjectList)
		err := c.List(ctx, page, append([]client.ListOption{client.Limit(pageSize), client.Continue(list.GetContinue())}, options...)...)
		if apierrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return err
		}
		seen += each(page)
		if page.GetContinue() == "" {
			return nil
		}
		if seen >= maxCounted {
			*more = true
			return nil
		}
		list.SetContinue(page.GetContinue())
	}
}
