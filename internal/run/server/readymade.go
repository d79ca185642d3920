package server

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

const (
	// signersPatience is how long a server waits for its ready-made Signers before it
	// announces that it is ready: an admission webhook can refuse them.
	signersPatience = 2 * time.Minute
	// signersPause is the time between two looks.
	signersPause = 20 * time.Millisecond
)

// readyMade returns the names of the Signers that the controllers of this server install.
func readyMade(settings controllermanager.Settings) ([]string, error) {
	if !(controllermanager.Config{Settings: settings}).Chooses(rights.InstallSigners) {
		return nil, nil
	}
	objects, err := settings.PodSigners.Signers()
	var names []string
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	return names, err
}

// waitSigners waits until the ready-made Signers exist: the first commands that people try
// request certificates of them.
func (p *parts) waitSigners(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.asServer)
	if err != nil {
		return fmt.Errorf("making the client that reads Signers: %w", err)
	}
	end := time.Now().Add(signersPatience)
	for _, name := range p.readyMade {
		said := worker.Waiting{What: "the ready-made Signer " + name}
		for time.Now().Before(end) {
			path := "/apis/" + v1alpha1.GroupVersion.String() + "/signers/" + name
			err := client.RESTClient().Get().AbsPath(path).Do(ctx).Error()
			if err == nil {
				break
			}
			said.Say(ctx, err, signersPause)
			if !worker.Sleep(ctx, signersPause) {
				return ctx.Err()
			}
		}
	}
	return nil
}
