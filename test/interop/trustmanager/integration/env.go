// Package test is the environment of trust-manager's integration tests of Bundles, which
// TestTrustManagersOwnTests adds to it: an API where certplane writes the targets and validates
// Bundles, instead of a manager in the process of the tests.
package test

import (
	"encoding/json"
	"os"
	"time"

	"github.com/cert-manager/trust-manager/pkg/fspkg"
	"github.com/cert-manager/trust-manager/test"
	"github.com/cert-manager/trust-manager/test/dummy"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"
)

// The tests use these names.
var (
	env            *envtest.Environment
	cl             client.Client
	trustNamespace = "trust-manager"
)

var _ = ginkgo.BeforeSuite(func() {
	// The default is a second, in which a busy machine does little.
	gomega.SetDefaultEventuallyTimeout(time.Minute)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	config.QPS = -1 // no limit
	env = &envtest.Environment{Config: config}
	cl, err = client.New(config, client.Options{Scheme: test.Scheme})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	komega.SetClient(cl)

	// certplane follows the package.
	data, err := json.Marshal(fspkg.Package{Name: "asd", Version: "123", Bundle: dummy.TestCertificate5})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(os.WriteFile(os.Getenv("DEFAULT_PACKAGE"), data, 0o600)).To(gomega.Succeed())
})
