// Package shimhelper: this file is added to the package of that name in cert-manager while its
// tests run. It records what they give to the shims, and what these do.
package shimhelper

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	clientset "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/fake"
	cmlisters "github.com/cert-manager/cert-manager/pkg/client/listers/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	coretesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

// recordedName is the name of the case that runs.
var recordedName string

// recordedCase is a case and its result.
type recordedCase struct {
	Name, Type       string
	Object           metav1.Object
	Stored           []*cmv1.Certificate
	Options          controller.IngressShimOptions
	Created, Updated []runtime.Object
	Deleted          []string
	Warnings         []string
	Error            string
}

// SyncFnFor takes the place of the function of this name.
func SyncFnFor(
	events record.EventRecorder, log logr.Logger, api clientset.Interface, stored cmlisters.CertificateLister,
	options controller.IngressShimOptions, manager string,
) SyncFn {
	return func(ctx context.Context, o metav1.Object) error {
		c := recordedCase{Name: recordedName, Type: fmt.Sprintf("%T", o), Object: o, Options: options}
		c.Stored, _ = stored.Certificates(o.GetNamespace()).List(labels.Everything())
		done := api.(*fake.Clientset)
		before := len(done.Actions())
		err := recordedSyncFnFor(warnings{events, &c}, log, api, stored, options, manager)(ctx, o)
		if err != nil {
			c.Error = err.Error()
		}
		for _, action := range done.Actions()[before:] {
			switch action := action.(type) {
			case coretesting.CreateActionImpl:
				c.Created = append(c.Created, action.GetObject())
			case coretesting.UpdateActionImpl:
				c.Updated = append(c.Updated, action.GetObject())
			case coretesting.DeleteActionImpl:
				c.Deleted = append(c.Deleted, action.GetName())
			}
		}
		c.append(os.Getenv("SHIM_CASES"))
		return err
	}
}

// append adds the case to a file, as a line of JSON.
func (c recordedCase) append(path string) {
	line, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// warnings records Events of warnings.
type warnings struct {
	record.EventRecorder
	c *recordedCase
}

func (w warnings) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	if kind == "Warning" {
		w.c.Warnings = append(w.c.Warnings, reason+" "+fmt.Sprintf(format, args...))
	}
	w.EventRecorder.Eventf(o, kind, reason, format, args...)
}
