// Command goclient uses the client that oapi-codegen makes of /openapi.json: it lists
// policies, writes one, reads it back, and is refused another of its name.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/google/uuid"

	"goclient/edictapi"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, plane string) error {
	c, err := edictapi.NewClientWithResponses(plane)
	if err != nil {
		return err
	}
	project := uuid.MustParse("00000000-0000-4000-8000-000000000000")
	before, err := c.ListPoliciesWithResponse(ctx, project, nil)
	if err != nil || before.JSON200 == nil {
		return fmt.Errorf("list: %v %s", err, before.Status())
	}
	any4, port := "0.0.0.0/0", 443
	name := "Of a generated client"
	draft := edictapi.Draft{
		Slug: "generated-go", DisplayName: &name, Selector: edictapi.Selector{Source: "role=web", Destination: "role=db"},
		Rules: []edictapi.Rule{{
			Action: "allow", Protocol: "tcp", SourceCidr: &any4, DestinationCidr: &any4, Ports: &edictapi.Ports{From: port, To: port},
		}},
	}
	made, err := c.CreatePolicyWithResponse(ctx, project, nil, draft)
	if err != nil || made.JSON201 == nil {
		return fmt.Errorf("create: %v %s", err, made.Body)
	}
	read, err := c.GetPolicyWithResponse(ctx, project, made.JSON201.Id, nil)
	if err != nil || read.JSON200 == nil {
		return fmt.Errorf("get: %v %s", err, read.Body)
	}
	again, err := c.CreatePolicyWithResponse(ctx, project, nil, draft)
	if err != nil || again.ApplicationproblemJSON4XX == nil {
		return fmt.Errorf("create again: %v %s", err, again.Body)
	}
	_, err = fmt.Printf("%d before, %s written and read, again: %s\n", len(before.JSON200.Items), read.JSON200.Slug, again.ApplicationproblemJSON4XX.Code)
	return err
}
