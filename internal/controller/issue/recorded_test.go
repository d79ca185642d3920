package issue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/controller/issue"
)

// recorded notes what the controller writes in the namespace of a world, and can
// break that. It is safe for concurrent use.
type recorded struct {
	world *world
	// atOnce has the answer to the creation of a request carry its certificate.
	atOnce bool
	// breaks decides what becomes of a write, of which there were so many before;
	// nil breaks none.
	breaks func(before int) breakage

	mu     sync.Mutex
	writes []string
}

// breakage is what becomes of a write.
type breakage int

const (
	works      breakage = iota
	lost                // it does not reach the API
	unanswered          // it does, but the answer is lost
)

var errBroken = errors.New("the connection was lost")

// taken returns what has been written since the last call, sorted.
func (r *recorded) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.writes
	r.writes = nil
	slices.Sort(taken)
	return taken
}

func (r *recorded) write(namespace, what string, do func() error) error {
	if namespace != r.world.namespace {
		return do()
	}
	r.mu.Lock()
	how := works
	if r.breaks != nil {
		how = r.breaks(len(r.writes))
	}
	r.writes = append(r.writes, what)
	r.mu.Unlock()
	if how == lost {
		return errBroken
	}
	if err := do(); err != nil || how == works {
		return err
	}
	return errBroken
}

// use has the controller write by r.
func (r *recorded) use(t testing.TB) func(*world, *issue.Config) {
	return func(w *world, cfg *issue.Config) {
		api, err := client.NewWithWatch(w.Admin(t), client.Options{Scheme: w.api.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		r.world = w
		cfg.Client = interceptor.NewClient(api, r.calls(t))
	}
}

func (r *recorded) calls(t testing.TB) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return r.write(o.GetNamespace(), "create "+kindOf(o), func() error {
				err := c.Create(ctx, o, options...)
				if cr, ok := o.(*cmv1.CertificateRequest); ok && err == nil && r.atOnce && o.GetNamespace() == r.world.namespace {
					r.world.signNow(t, cr)
				}
				return err
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return r.write(o.GetNamespace(), "update "+kindOf(o), func() error { return c.Update(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return r.write(o.GetNamespace(), "patch "+kindOf(o), func() error { return c.Patch(ctx, o, patch, options...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			secret, ok := o.(*applycorev1.SecretApplyConfiguration)
			if !ok {
				return fmt.Errorf("%T is applied", o)
			}
			return r.write(*secret.Namespace, "apply Secret", func() error { return c.Apply(ctx, o, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return r.write(o.GetNamespace(), "delete "+kindOf(o), func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return r.write(o.GetNamespace(), "update "+sub+" of "+kindOf(o), func() error { return c.SubResource(sub).Update(ctx, o, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return r.write(o.GetNamespace(), "patch "+sub+" of "+kindOf(o), func() error { return c.SubResource(sub).Patch(ctx, o, patch, options...) })
		},
	}
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *cmv1.Certificate:
		return "Certificate"
	case *cmv1.CertificateRequest:
		return "CertificateRequest"
	case *corev1.Secret:
		return "Secret"
	}
	return fmt.Sprintf("%T", o)
}
