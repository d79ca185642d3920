package issue

import (
	"context"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// setStatus changes the Certificate's status as an actor, in memory: flush writes
// it. It reports whether that has changed anything.
func (t *pass) setStatus(who actor, change func(*cmv1.Certificate)) (changed bool) {
	before := t.Certificate.Status.DeepCopy()
	if t.Certificate == t.stored {
		t.Certificate = t.stored.DeepCopy()
	}
	change(t.Certificate)
	if equality.Semantic.DeepEqual(*before, t.Certificate.Status) {
		return false
	}
	if slices.Index(writers, who) > slices.Index(writers, t.writer) {
		t.writer = who
	}
	return true
}

// writers are the actors that change statuses. The last of those that take part
// in a write gives it its name.
var writers = []actor{readiness, keyManager, trigger, requestManager, issuing}

// flush writes the status if it has changed, and then records the Events about
// that. It returns a conflict if another client was faster.
func (t *pass) flush(ctx context.Context) error {
	if !equality.Semantic.DeepEqual(t.stored.Status, t.Certificate.Status) {
		if err := t.writeStatus(ctx); err != nil {
			return err
		}
	}
	t.writer = ""
	t.recordNews()
	return nil
}

func (t *pass) writeStatus(ctx context.Context) error {
	// This is not a patch: for a patch, the API server encodes and decodes the
	// whole object.
	if err := t.Client.Status().Update(ctx, t.Certificate, client.FieldOwner(t.writer)); err != nil {
		return fmt.Errorf("writing the status of Certificate %s/%s: %w", t.stored.Namespace, t.stored.Name, err)
	}
	t.stored, t.confirmed = t.Certificate, t.Clock.Now()
	t.saw(t.stored.ResourceVersion)
	return nil
}

// saw remembers a version that this pass has seen or written: it is nothing new.
func (t *pass) saw(version string) {
	if t.isLook {
		t.sights.saw(client.ObjectKeyFromObject(t.stored), version)
	}
}

// deletes remembers what this pass is about to delete.
func (t *pass) deletes(o client.Object) {
	if t.isLook {
		t.sights.deletes(client.ObjectKeyFromObject(t.stored), o.GetUID())
	}
}

// confirmation is how long it counts that the Certificate was the latest.
const confirmation = time.Second

// unchanged returns an error unless the Certificate in the API is the same as
// when this pass began. It must be called before anything that cannot be
// undone, since caches are late. A Certificate that this pass has written was
// the latest, or the write would have failed.
func (t *pass) unchanged(ctx context.Context) error {
	if since := t.Clock.Since(t.confirmed); since >= 0 && since < confirmation {
		return nil
	}
	latest := &cmv1.Certificate{} // within the process, this costs less than its metadata
	if err := t.Client.Get(ctx, client.ObjectKeyFromObject(t.stored), latest); err != nil {
		return err
	}
	if latest.UID != t.stored.UID || latest.ResourceVersion != t.stored.ResourceVersion {
		return errChanged
	}
	t.confirmed = t.Clock.Now()
	return nil
}
