//go:build !azurekms

package kms

import "context"

var openAzure func(ctx context.Context, uri string) (*Key, error)
