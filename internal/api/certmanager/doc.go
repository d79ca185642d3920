// Package certmanager implements the API groups cert-manager.io and
// acme.cert-manager.io: defaults, validation and conditions of their kinds.
//
// Defaults are never stored: a reference without a kind stays without a kind,
// and the code that reads it calls this package to resolve it.
package certmanager

import (
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The two groups.
const (
	Group     = "cert-manager.io"
	ACMEGroup = "acme.cert-manager.io"
)

// AddToScheme registers the kinds of both groups.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := cmv1.AddToScheme(scheme); err != nil {
		return err
	}
	return acmev1.AddToScheme(scheme)
}
