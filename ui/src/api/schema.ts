// Made by types.mjs.
export interface paths {
    "/v1/access/self": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getSelf"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getSignIn"];
        put?: never;
        post: operations["openSession"];
        delete: operations["closeSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listDecisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/engine/evaluate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["evaluate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listAdmissionPolicies"];
        put?: never;
        post: operations["createAdmissionPolicy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes/{node}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["diffNode"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes/{node}/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["explainFlow"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes/{node}/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listNodePolicies"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes/{node}/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getNodeState"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listAllNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes:summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["countNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/nodes/{node}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getNode"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/nodes:summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["countProjectNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["followEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fleet/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["followFleet"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fleet/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getFleetHistory"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listKeys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["followProjectEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/rejected": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listRejected"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listPolicies"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getPolicy"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/abort": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["abortRollout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["promoteRevision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/rollout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getRollout"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/stage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["stageRevision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["diffRevisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/dry-run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["dryRunPolicy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["listRevisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project}/policies/{policy}/revisions/{revision}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["getRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Abort: {
            /** Format: uuid */
            revision_id?: string;
            reason?: string;
        };
        AdmissionDraft: {
            name: string;
            description?: string;
            policy_type: string;
            tenant_id?: string;
            user_id?: string;
            service_type?: string;
            label_selector?: {
                [key: string]: string;
            };
            /** Format: int64 */
            priority?: number;
            enabled?: boolean;
            /** @enum {string} */
            mode?: "enforce" | "shadow";
            rego_code: string;
            test_cases?: Record<string, unknown>[];
        };
        AdmissionEffect: {
            /** @enum {string} */
            status: "APPROVED" | "MODIFIED";
            /** Format: uint64 */
            snapshot_version: number;
            selector: components["schemas"]["Selector"];
            tier?: components["schemas"]["Tier"];
            priority?: number;
            default_deny?: components["schemas"]["DefaultDeny"];
            mode?: components["schemas"]["Mode"];
            rules: components["schemas"]["Rule"][];
            patches?: components["schemas"]["AdmissionPatch"][];
        };
        AdmissionID: {
            id: string;
            warnings?: components["schemas"]["Fault"][];
        };
        AdmissionNote: {
            /** @enum {string} */
            status: "APPROVED" | "MODIFIED";
            /** Format: uint64 */
            snapshot_version: number;
            patches: components["schemas"]["AdmissionPatch"][];
        };
        AdmissionPatch: {
            policy: components["schemas"]["Deciding"];
            changes?: components["schemas"]["Change"][];
            dropped?: string[];
        };
        AdmissionPolicy: {
            id: string;
            name: string;
            description?: string;
            /** @enum {string} */
            policy_type: "Global" | "Tenant" | "User";
            tenant_id?: string;
            user_id?: string;
            service_type?: string;
            label_selector?: {
                [key: string]: string;
            };
            /** Format: int64 */
            priority: number;
            enabled: boolean;
            /** @enum {string} */
            mode: "enforce" | "shadow";
            rego_code: string;
            test_cases?: Record<string, unknown>[];
            /** Format: uint64 */
            version: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            created_by: string;
            warnings?: components["schemas"]["Fault"][];
        };
        AdmissionPolicyPage: {
            items: components["schemas"]["AdmissionPolicy"][];
            next_cursor: string | null;
        };
        Admitted: {
            request_payload: Record<string, unknown>;
            service_provider: components["schemas"]["Provider"];
            /** @enum {string} */
            status: "APPROVED" | "MODIFIED";
            explain?: components["schemas"]["Explanation"];
        };
        Arrival: {
            /** Format: uint64 */
            log_seq: number;
            /** Format: uuid */
            revision_id?: string;
            /** Format: date-time */
            time?: string;
            /** Format: int64 */
            nodes: number;
            p50_seconds: number | null;
            p99_seconds: number | null;
            curve: components["schemas"]["ArrivalPoint"][];
        };
        ArrivalPoint: {
            seconds: number;
            /** Format: int64 */
            nodes: number;
        };
        Audited: {
            /** Format: int64 */
            nodes: number;
            /** Format: uint64 */
            egress: number;
            /** Format: uint64 */
            ingress: number;
            by_default: components["schemas"]["AuditedByDefault"];
        };
        AuditedByDefault: {
            /** Format: uint64 */
            egress: number;
            /** Format: uint64 */
            ingress: number;
        };
        ByState: {
            /** Format: int64 */
            nodes: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            lagging: number;
            /** Format: int64 */
            refused: number;
            /** Format: int64 */
            silent: number;
        };
        Change: {
            op: string;
            path: string;
            old?: unknown;
            value?: unknown;
        };
        ChangeEvent: {
            /** Format: uint64 */
            seq: number;
            type: string;
            event_id: string;
            /** Format: date-time */
            time: string;
        };
        Check: {
            name: string;
            /** @enum {string} */
            status: "ok" | "failed" | "info";
            detail?: string;
        };
        Considered: {
            /** Format: uuid */
            policy: string;
            /** Format: uuid */
            revision: string;
            /** Format: int64 */
            index: number;
            slug: string;
            /** @enum {string} */
            tier: "admin" | "normal" | "baseline";
            priority: number;
            text: string;
            applies: boolean;
            matched: boolean;
            reason: string;
        };
        Convergence: {
            /** Format: int64 */
            desired: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            reported: number;
            lagging: components["schemas"]["Lagging"][];
            by_state?: components["schemas"]["ByState"];
            not_applied: components["schemas"]["NotApplied"];
        };
        Deciding: {
            id: string;
            name: string;
        };
        Decision: {
            /** Format: uint64 */
            seq: number;
            decision_id: string;
            /** Format: date-time */
            time: string;
            worker: string;
            /** Format: uint64 */
            snapshot_version: number;
            dry_run?: boolean;
            service_type: string;
            labels?: {
                [key: string]: string;
            };
            user_id?: string;
            tenant_id?: string;
            request_payload: Record<string, unknown> | null;
            /** @enum {string} */
            outcome: "approved" | "modified" | "rejected" | "conflict" | "error" | "timeout" | "invalid" | "busy";
            result_payload?: Record<string, unknown> | null;
            service_provider?: components["schemas"]["Provider"];
            policy?: components["schemas"]["Deciding"];
            reason?: string;
            policies?: components["schemas"]["Judgement"][];
            /** Format: int64 */
            policies_left_out?: number;
            shadows?: components["schemas"]["ShadowDecision"][];
            /** Format: int64 */
            shadows_left_out?: number;
            /** Format: uint64 */
            took_ns: number;
            masked?: string[];
        };
        DecisionPage: {
            items: components["schemas"]["Decision"][];
            next_cursor: string | null;
        };
        Default: {
            /** @enum {string} */
            direction: "egress" | "ingress";
            /** @enum {string} */
            verdict: "allow" | "deny";
            policies: components["schemas"]["PolicyRef"][];
        };
        DefaultDeny: boolean;
        Diff: {
            added: components["schemas"]["Rule"][];
            removed: components["schemas"]["Rule"][];
            modified: components["schemas"]["Modified"][];
            order?: components["schemas"]["OrderChange"];
            reordered?: boolean;
        };
        DryRun: {
            matched_node_ids: components["schemas"]["NodeID"][];
            rule_diff: components["schemas"]["Diff"];
            /** Format: uint64 */
            peer_pairs_affected: number;
            unreachable_node_ids: components["schemas"]["NodeID"][];
            warnings: components["schemas"]["Warning"][];
            flows?: components["schemas"]["FlowChanges"];
            admission?: components["schemas"]["AdmissionEffect"];
        };
        Entry: {
            /** @enum {string} */
            direction: "egress" | "ingress";
            identity: number;
            /** @enum {string} */
            protocol: "tcp" | "udp" | "sctp" | "icmp" | "any";
            port: number;
            prefix: number;
            /** @enum {string} */
            verdict: "allow" | "deny" | "redirect";
            precedence: number;
            proxy_port?: number;
            /** @enum {string} */
            auth?: "required";
            rule: components["schemas"]["RuleRef"] | null;
        };
        Evaluation: {
            request_payload: Record<string, unknown>;
            user_id?: string;
            tenant_id?: string;
        };
        EventChange: {
            policy?: components["schemas"]["HeadChange"];
            node?: components["schemas"]["NodeChange"];
        };
        Explanation: {
            /** Format: uint64 */
            snapshot_version: number;
            steps: Record<string, unknown>[];
        };
        Facts: {
            labels?: {
                [key: string]: string;
            };
            addresses?: string[];
        };
        Fault: {
            pointer: string;
            code: string;
            detail: string;
        };
        Fingerprint: string;
        FleetHistory: {
            /** Format: int64 */
            every_seconds: number;
            items: components["schemas"]["FleetSample"][];
        };
        FleetSample: {
            /** Format: date-time */
            time: string;
            /** Format: uint64 */
            log_seq: number;
            /** Format: uint64 */
            applied_seq: number;
            /** Format: int64 */
            nodes: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            lagging: number;
            /** Format: int64 */
            refused: number;
            /** Format: int64 */
            silent: number;
            /** Format: int64 */
            streams: number;
        };
        FlowChange: {
            node_id: components["schemas"]["NodeID"];
            /** @enum {string} */
            direction: "egress" | "ingress";
            peer: string;
            /** @enum {string} */
            protocol: "tcp" | "udp" | "sctp" | "icmp";
            port?: number;
            before: components["schemas"]["FlowDecision"];
            after: components["schemas"]["FlowDecision"];
        };
        FlowChanges: {
            nodes: components["schemas"]["NodeCount"];
            changed: components["schemas"]["NodeCount"];
            skipped: components["schemas"]["NodeCount"];
            /** Format: uint64 */
            compared: number;
            /** Format: uint64 */
            denied: number;
            /** Format: uint64 */
            allowed: number;
            /** Format: uint64 */
            altered: number;
            sampled: boolean;
            examples: components["schemas"]["FlowChange"][];
        };
        FlowDecision: {
            /** @enum {string} */
            verdict: "allow" | "deny" | "redirect";
            proxy_port?: number;
            /** @enum {string} */
            auth?: "required";
            rule: components["schemas"]["FlowRule"] | null;
        };
        FlowRule: {
            slug?: string;
            /** Format: int64 */
            index: number;
        };
        FlowVerdict: {
            /** @enum {string} */
            verdict: "allow" | "deny" | "redirect";
            rule: components["schemas"]["PlacedRule"] | null;
            reason?: string;
            considered: components["schemas"]["Considered"][];
            default?: components["schemas"]["Default"];
            entry: components["schemas"]["Entry"] | null;
            warnings?: components["schemas"]["Fault"][];
            refused?: components["schemas"]["Refused"];
        };
        HeadChange: {
            /** Format: uuid */
            revision_id: string;
            /** Format: uuid */
            parent_revision_id: string | null;
            selectors?: components["schemas"]["Selectors"];
            rules: components["schemas"]["Diff"];
        };
        Judgement: {
            id: string;
            name: string;
            level?: string;
            owned?: boolean;
            /** Format: uint64 */
            version?: number;
            outcome: string;
        };
        Key: {
            key_id: components["schemas"]["KeyID"];
            /** @enum {string} */
            alg: "ed25519";
            plane: string;
            public_key: string;
            /** @enum {string} */
            status: "current" | "previous";
            /** Format: date-time */
            not_after: string | null;
        };
        KeyID: string;
        KeyItems: {
            items: components["schemas"]["Key"][];
        };
        Lagging: {
            node_id: components["schemas"]["NodeID"];
            /** Format: date-time */
            since: string | null;
        };
        LogEnd: {
            /** Format: uint64 */
            seq: number;
        };
        LogEvent: {
            /** Format: uint64 */
            seq: number;
            /** Format: date-time */
            time: string;
            principal?: string;
            correlation_id?: string;
            /** @enum {string} */
            via?: "nats";
            claimed_principal?: string;
            claimed_correlation_id?: string;
            type: string;
            subject: string;
            event_id: string;
            policy?: string;
            detail?: string;
            rejected?: string;
            /** @enum {string} */
            verdict: "applied" | "rejected";
            project_id?: string;
            policy_id?: string;
            node_id?: string;
            /** Format: int64 */
            nodes?: number;
            change?: components["schemas"]["EventChange"];
        };
        LogStatus: {
            /** Format: date-time */
            created: string;
            /** Format: uint64 */
            bytes: number;
            /** Format: uint64 */
            begins?: number;
            archive?: string;
            bytes_per_event?: number;
            /** Format: uint64 */
            bytes_per_day?: number;
            /** Format: uint64 */
            room_bytes?: number;
            full_in_seconds?: number;
            nats?: string;
        };
        /** @enum {string} */
        Mode: "enforce" | "audit";
        Modified: {
            before: components["schemas"]["Rule"];
            after: components["schemas"]["Rule"];
        };
        Node: {
            id: components["schemas"]["NodeID"];
            /** Format: uuid */
            project_id: string;
            labels: {
                [key: string]: string;
            };
            addresses: string[];
            /** Format: uint64 */
            version: number;
            report?: components["schemas"]["NodeReport"];
        };
        NodeAt: {
            /** Format: uint64 */
            seq: number;
            facts: components["schemas"]["Facts"] | null;
            etag?: string;
        };
        NodeChange: {
            created?: boolean;
            removed?: boolean;
            labels_before?: {
                [key: string]: string;
            };
            labels?: {
                [key: string]: string;
            };
            addresses?: string[];
        };
        NodeCount: {
            /** Format: int64 */
            count: number;
            first: string[];
            at_least: boolean;
        };
        NodeCounts: {
            /** Format: uint64 */
            seq: number;
            /** Format: int64 */
            nodes: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            lagging: number;
            /** Format: int64 */
            refused: number;
            /** Format: int64 */
            silent: number;
            by?: string;
            /** Format: int64 */
            values?: number;
            groups?: components["schemas"]["NodeGroup"][];
        };
        NodeDiff: {
            node_id: components["schemas"]["NodeID"];
            from: components["schemas"]["NodeAt"];
            to: components["schemas"]["NodeAt"];
            rows: components["schemas"]["RowChange"][];
            event?: components["schemas"]["ChangeEvent"];
        };
        NodeGroup: {
            value: string | null;
            /** Format: int64 */
            nodes: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            lagging: number;
            /** Format: int64 */
            refused: number;
            /** Format: int64 */
            silent: number;
        };
        NodeID: string;
        NodePage: {
            items: components["schemas"]["Node"][];
            next_cursor: string | null;
        };
        NodePolicies: {
            node_id: components["schemas"]["NodeID"];
            /** Format: uint64 */
            version: number;
            lines: components["schemas"]["NodeRule"][];
            defaults: components["schemas"]["Default"][];
            warnings?: components["schemas"]["Fault"][];
            refused?: components["schemas"]["Refused"];
        };
        NodePolicy: {
            /** Format: uuid */
            revision_id: string;
            fingerprint: components["schemas"]["Fingerprint"];
            rules: components["schemas"]["Rule"][];
            /** Format: int64 */
            rules_omitted?: number;
            resolved?: boolean;
        };
        NodeReport: {
            /** @enum {string} */
            state: "applied" | "lagging" | "refused" | "silent";
            /** Format: uint64 */
            desired_version: number;
            /** Format: uint64 */
            version?: number;
            /** Format: uint64 */
            table_version?: number;
            /** @enum {string} */
            outcome?: "applied" | "refused" | "stale" | "drift";
            reason?: string;
            /** Format: date-time */
            since?: string;
            age_seconds?: number;
        };
        NodeRule: {
            /** @enum {string} */
            direction: "egress" | "ingress";
            /** Format: uuid */
            policy: string;
            /** Format: uuid */
            revision: string;
            /** Format: int64 */
            index: number;
            slug: string;
            /** @enum {string} */
            tier: "admin" | "normal" | "baseline";
            priority: number;
            text: string;
            applies: boolean;
            reason?: string;
        };
        NodeState: {
            peers: Record<string, unknown>[];
            reachability: Record<string, unknown> | null;
            policy: components["schemas"]["NodePolicy"] | null;
            bridge: Record<string, unknown> | null;
            state: Record<string, unknown> | null;
            reports: Record<string, unknown> | null;
            executions: Record<string, unknown>[];
            sessions: Record<string, unknown> | null;
        };
        NotApplied: {
            /** Format: int64 */
            refused: number;
            /** Format: int64 */
            stale: number;
            /** Format: int64 */
            drift: number;
        };
        Order: {
            tier?: components["schemas"]["Tier"];
            priority?: components["schemas"]["Priority"];
            default_deny?: boolean;
            mode?: components["schemas"]["Mode"];
        };
        OrderChange: {
            before: components["schemas"]["Order"];
            after: components["schemas"]["Order"];
        };
        Partition: {
            /** Format: int64 */
            id: number;
            publisher: string;
            owner?: string;
            /** Format: uint64 */
            upto: number;
        };
        Past: {
            /** Format: uint64 */
            from: number;
            /** Format: int64 */
            records: number;
            /** Format: int64 */
            bytes: number;
            /** Format: uint64 */
            dropped: number;
        };
        PastCounts: {
            /** Format: uint64 */
            seq: number;
            /** Format: int64 */
            nodes: number;
            by?: string;
            /** Format: int64 */
            values?: number;
            groups?: components["schemas"]["PastGroup"][];
        };
        PastGroup: {
            value: string | null;
            /** Format: int64 */
            nodes: number;
        };
        PlacedRule: {
            /** Format: uuid */
            policy: string;
            /** Format: uuid */
            revision: string;
            /** Format: int64 */
            index: number;
            slug: string;
            /** @enum {string} */
            tier: "admin" | "normal" | "baseline";
            priority: number;
            text: string;
        };
        Policy: {
            /** Format: uuid */
            id: string;
            /** Format: uuid */
            project_id: string;
            slug: string;
            display_name: string;
            /** Format: uuid */
            head_revision_id: string;
            /** @enum {string} */
            tier?: "admin" | "normal" | "baseline";
            priority?: number;
            default_deny?: boolean;
            /** @enum {string} */
            mode?: "enforce" | "audit";
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            head?: components["schemas"]["Revision"];
            waves?: components["schemas"]["Waves"];
            admission?: components["schemas"]["AdmissionNote"];
            warnings?: components["schemas"]["Warning"][];
        };
        PolicyPage: {
            items: components["schemas"]["Policy"][];
            next_cursor: string | null;
        };
        PolicyRef: {
            /** Format: uuid */
            policy: string;
            slug: string;
        };
        Ports: {
            from: number;
            to: number;
        };
        Preview: {
            selector: components["schemas"]["Selector"];
            tier?: components["schemas"]["Tier"];
            priority?: components["schemas"]["Priority"];
            default_deny?: components["schemas"]["DefaultDeny"];
            mode?: components["schemas"]["Mode"];
            rules: components["schemas"]["Rule"][];
        };
        Priority: number;
        Problem: {
            /** Format: uri-reference */
            type: string;
            title: string;
            /** Format: int64 */
            status: number;
            detail: string;
            instance: string;
            code: string;
            correlation_id?: string;
            errors?: components["schemas"]["Fault"][];
            /** Format: uint64 */
            sequence?: number;
            checks?: components["schemas"]["Check"][];
            policy?: components["schemas"]["Deciding"];
            explain?: components["schemas"]["Explanation"];
        };
        Promotion: {
            /** Format: uuid */
            revision_id?: string;
            waves?: string[];
            /** Format: int64 */
            min_applied_percent?: number;
            /** Format: int64 */
            max_refused_percent?: number;
            /** @enum {string} */
            on_refusal?: "stop" | "abort";
        };
        Provider: {
            value: string;
            constraints: components["schemas"]["ProviderConstraints"];
        };
        ProviderConstraints: {
            allow_list?: string[];
            patterns?: string[];
        };
        Reached: {
            /** Format: int64 */
            nodes: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            refused: number;
        };
        Refusal: {
            node_id: components["schemas"]["NodeID"];
            /** @enum {string} */
            outcome: "refused" | "stale" | "drift";
            reason?: string;
            /** Format: date-time */
            since: string;
        };
        Refused: {
            node_id: components["schemas"]["NodeID"];
            /** @enum {string} */
            code: "too_many_entries" | "too_many_priorities";
            detail: string;
            /** Format: uint64 */
            as_of?: number;
        };
        Rejection: {
            /** Format: uint64 */
            seq: number;
            subject: string;
            event_id: string;
            type: string;
            code: string;
            detail: string;
            violations?: components["schemas"]["Fault"][];
            /** Format: date-time */
            time: string;
        };
        RejectionPage: {
            items: components["schemas"]["Rejection"][];
            next_cursor: string | null;
        };
        Revision: {
            /** Format: uuid */
            id: string;
            /** Format: uint64 */
            seq?: number;
            /** Format: uuid */
            policy_id: string;
            /** Format: uuid */
            parent_id: string | null;
            selector: components["schemas"]["Selector"];
            tier?: components["schemas"]["Tier"];
            priority?: components["schemas"]["Priority"];
            default_deny?: components["schemas"]["DefaultDeny"];
            mode?: components["schemas"]["Mode"];
            rules: components["schemas"]["Rule"][];
            /** Format: date-time */
            created_at: string;
            created_by: string;
            correlation_id: string | null;
        };
        RevisionPage: {
            items: components["schemas"]["Revision"][];
            next_cursor: string | null;
        };
        Rollout: {
            /** Format: int64 */
            desired: number;
            /** Format: int64 */
            applied: number;
            /** Format: int64 */
            dropped: number;
            lagging: components["schemas"]["Lagging"][];
            waves?: components["schemas"]["Waves"];
            p50_seconds: number | null;
            p99_seconds: number | null;
            refused?: components["schemas"]["Refused"][];
            refusals?: components["schemas"]["Refusal"][];
            arrivals?: components["schemas"]["Arrival"][];
            audited?: components["schemas"]["Audited"];
        };
        RowChange: {
            /** Format: uuid */
            policy_id: string;
            slug?: string;
            /** @enum {string} */
            change: "added" | "removed" | "changed";
            before?: components["schemas"]["RowRevision"];
            after?: components["schemas"]["RowRevision"];
            event?: components["schemas"]["ChangeEvent"];
        };
        RowRevision: {
            /** Format: uuid */
            revision_id: string;
            fingerprint: components["schemas"]["Fingerprint"];
        };
        Rule: {
            /** @enum {string} */
            action: "allow" | "deny" | "log" | "pass" | "redirect";
            /** @enum {string} */
            protocol: "tcp" | "udp" | "sctp" | "icmp" | "any";
            /** Format: cidr */
            source_cidr?: string;
            /** Format: cidr */
            destination_cidr?: string;
            ports?: components["schemas"]["Ports"];
            source_selector?: string;
            destination_selector?: string;
            proxy_port?: number;
            listener_priority?: number;
            /** @enum {string} */
            auth?: "required" | "disabled";
            /** @enum {string} */
            direction?: "ingress" | "egress";
        };
        RuleRef: {
            /** Format: uuid */
            policy: string;
            /** Format: uuid */
            revision: string;
            /** Format: int64 */
            index: number;
        };
        Selector: {
            source: string;
            destination: string;
        };
        Selectors: {
            before: components["schemas"]["Selector"] | null;
            after: components["schemas"]["Selector"];
        };
        Self: {
            id: string;
            kind?: string;
            relations: string[];
        };
        Session: {
            /** Format: date-time */
            expires_at?: string;
        };
        SessionCode: {
            code: string;
        };
        ShadowDecision: {
            id: string;
            name: string;
            level?: string;
            owned?: boolean;
            /** Format: uint64 */
            version?: number;
            outcome: string;
            reason?: string;
        };
        Share: {
            /** Format: uuid */
            project_id: string;
            /** Format: uint64 */
            bytes: number;
            over: boolean;
            /** Format: date-time */
            shut_out_until?: string;
        };
        Shares: {
            /** Format: uint64 */
            limit: number;
            /** Format: int64 */
            hours: number;
            /** Format: int64 */
            over: number;
            projects: components["schemas"]["Share"][];
        };
        SignIn: {
            issuer?: string;
            path?: string;
        };
        Status: {
            /** Format: uint64 */
            head: number;
            /** Format: uint64 */
            applied: number;
            log: components["schemas"]["LogStatus"];
            workers: components["schemas"]["Worker"][];
            partitions: components["schemas"]["Partition"][];
            /** Format: uint64 */
            rejected: number;
            /** Format: int64 */
            nodes: number;
            /** Format: int64 */
            identities: number;
            /** Format: int64 */
            policies: number;
            past: components["schemas"]["Past"];
            shares: components["schemas"]["Shares"];
            /** @enum {string} */
            durability: "strict" | "relaxed" | "unknown";
            digest?: string;
            convergence?: components["schemas"]["Convergence"];
        };
        /** @enum {string} */
        Tier: "admin" | "normal" | "baseline";
        Warning: {
            pointer: string;
            code: string;
            detail: string;
            policy?: string;
        };
        Waves: {
            /** Format: uuid */
            revision_id: string;
            /** Format: uuid */
            parent_revision_id: string;
            /** @enum {string} */
            phase: "staged" | "progressing" | "stopped" | "completed" | "aborted";
            waves: string[];
            /** Format: int64 */
            opened: number;
            /** Format: int64 */
            min_applied_percent: number;
            /** Format: int64 */
            max_refused_percent: number;
            /** @enum {string} */
            on_refusal: "stop" | "abort";
            reason?: string;
            reached?: components["schemas"]["Reached"];
            waits_for?: string;
            /** Format: date-time */
            updated_at: string;
            admission?: components["schemas"]["AdmissionNote"];
        };
        Worker: {
            name: string;
            owner: string;
            http: string;
            /** Format: date-time */
            started: string;
            /** Format: uint64 */
            applied: number;
            /** Format: uint64 */
            lag: number;
        };
    };
    responses: never;
    parameters: {
        After2: number;
        All: boolean;
        At: string;
        By: string;
        Cursor: string;
        Decision: string;
        Digest: boolean;
        Direction: "egress" | "ingress";
        DryRun: boolean;
        Explain: "full";
        From: string;
        FromRevision: string;
        IdempotencyKey: string;
        IfNoneMatch: string;
        LabelSelector: string;
        LastEventID3: string;
        Limit: number;
        Limit2: number;
        Limit3: number;
        MinSeq: number;
        Mode: "enforce" | "audit";
        Name2: string;
        Node: string;
        Node2: string;
        Outcome: "approved" | "modified" | "rejected" | "conflict" | "error" | "timeout" | "invalid" | "busy";
        Peer: string;
        Policy: string;
        Policy2: string;
        Policy3: string;
        PolicyType: string;
        Port: number;
        Prefix: string;
        Prefix2: string;
        Project: string;
        Project2: string;
        Protocol: "tcp" | "udp" | "sctp" | "icmp";
        Report: boolean;
        Revision: string;
        Rule: string;
        ServiceType: string;
        Since2: string;
        Since3: string;
        Slug: string;
        State: string;
        Tenant: string;
        TenantId: string;
        To: string;
        ToRevision: string;
        Type: "policy_revision_created" | "policy_deleted" | "node_updated" | "node_removed" | "admission_policy_updated" | "admission_policy_deleted" | "artifact_released" | "artifact_withdrawn" | "principal_updated" | "principal_removed" | "relation_written" | "relation_removed" | "node_registered" | "signing_key_rotated" | "policy_revision_staged" | "policy_revision_promoted" | "policy_wave_opened" | "policy_rollout_stopped" | "policy_rollout_aborted" | "project_quota_updated" | "project_archived" | "project_restored";
        Until2: string;
        User: string;
        UserId: string;
        XCorrelationId: string;
        XEdictPrincipal: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getSelf: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Self"];
                };
            };
        };
    };
    getSignIn: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignIn"];
                };
            };
        };
    };
    openSession: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SessionCode"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    closeSession: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listDecisions: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                policy?: components["parameters"]["Policy2"];
                user?: components["parameters"]["User"];
                tenant?: components["parameters"]["Tenant"];
                outcome?: components["parameters"]["Outcome"];
                decision?: components["parameters"]["Decision"];
                since?: components["parameters"]["Since2"];
                until?: components["parameters"]["Until2"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DecisionPage"];
                };
            };
        };
    };
    evaluate: {
        parameters: {
            query?: {
                explain?: components["parameters"]["Explain"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Evaluation"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Admitted"];
                };
            };
        };
    };
    listAdmissionPolicies: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                policy_type?: components["parameters"]["PolicyType"];
                tenant_id?: components["parameters"]["TenantId"];
                user_id?: components["parameters"]["UserId"];
                service_type?: components["parameters"]["ServiceType"];
                name?: components["parameters"]["Name2"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmissionPolicyPage"];
                };
            };
        };
    };
    createAdmissionPolicy: {
        parameters: {
            query?: {
                dry_run?: components["parameters"]["DryRun"];
            };
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Edict-Principal"?: components["parameters"]["XEdictPrincipal"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AdmissionDraft"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmissionID"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmissionID"];
                };
            };
        };
    };
    diffNode: {
        parameters: {
            query: {
                from: components["parameters"]["From"];
                to?: components["parameters"]["To"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                node: components["parameters"]["Node"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeDiff"];
                };
            };
        };
    };
    explainFlow: {
        parameters: {
            query: {
                direction: components["parameters"]["Direction"];
                peer: components["parameters"]["Peer"];
                protocol: components["parameters"]["Protocol"];
                port?: components["parameters"]["Port"];
                mode?: components["parameters"]["Mode"];
                min_seq?: components["parameters"]["MinSeq"];
                at?: components["parameters"]["At"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                node: components["parameters"]["Node"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowVerdict"];
                };
            };
        };
    };
    listNodePolicies: {
        parameters: {
            query?: {
                all?: components["parameters"]["All"];
                min_seq?: components["parameters"]["MinSeq"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                node: components["parameters"]["Node"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodePolicies"];
                };
            };
        };
    };
    getNodeState: {
        parameters: {
            query?: {
                min_seq?: components["parameters"]["MinSeq"];
                at?: components["parameters"]["At"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                node: components["parameters"]["Node"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeState"];
                };
            };
        };
    };
    listAllNodes: {
        parameters: {
            query?: {
                state?: components["parameters"]["State"];
                label_selector?: components["parameters"]["LabelSelector"];
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodePage"];
                };
            };
        };
    };
    countNodes: {
        parameters: {
            query?: {
                by?: components["parameters"]["By"];
                label_selector?: components["parameters"]["LabelSelector"];
                at?: components["parameters"]["At"];
                limit?: components["parameters"]["Limit2"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeCounts"] | components["schemas"]["PastCounts"];
                };
            };
        };
    };
    listNodes: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                prefix?: components["parameters"]["Prefix2"];
                label_selector?: components["parameters"]["LabelSelector"];
                state?: components["parameters"]["State"];
                report?: components["parameters"]["Report"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodePage"];
                };
            };
        };
    };
    getNode: {
        parameters: {
            query?: {
                report?: components["parameters"]["Report"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                node: components["parameters"]["Node"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Node"];
                };
            };
        };
    };
    countProjectNodes: {
        parameters: {
            query?: {
                by?: components["parameters"]["By"];
                label_selector?: components["parameters"]["LabelSelector"];
                at?: components["parameters"]["At"];
                limit?: components["parameters"]["Limit2"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeCounts"] | components["schemas"]["PastCounts"];
                };
            };
        };
    };
    followEvents: {
        parameters: {
            query?: {
                since?: components["parameters"]["Since3"];
                project?: components["parameters"]["Project2"];
                type?: components["parameters"]["Type"];
                policy?: components["parameters"]["Policy3"];
                node?: components["parameters"]["Node2"];
            };
            header?: {
                "Last-Event-ID"?: components["parameters"]["LastEventID3"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    followFleet: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    getFleetHistory: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FleetHistory"];
                };
            };
        };
    };
    listKeys: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyItems"];
                };
            };
        };
    };
    followProjectEvents: {
        parameters: {
            query?: {
                since?: components["parameters"]["Since3"];
                type?: components["parameters"]["Type"];
                policy?: components["parameters"]["Policy3"];
                node?: components["parameters"]["Node2"];
            };
            header?: {
                "Last-Event-ID"?: components["parameters"]["LastEventID3"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    listRejected: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                after?: components["parameters"]["After2"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RejectionPage"];
                };
            };
        };
    };
    getStatus: {
        parameters: {
            query?: {
                digest?: components["parameters"]["Digest"];
                limit?: components["parameters"]["Limit3"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Status"];
                };
            };
        };
    };
    listPolicies: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                prefix?: components["parameters"]["Prefix"];
                slug?: components["parameters"]["Slug"];
                rule?: components["parameters"]["Rule"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyPage"];
                };
            };
        };
    };
    getPolicy: {
        parameters: {
            query?: {
                at?: components["parameters"]["At"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Policy"];
                };
            };
        };
    };
    abortRollout: {
        parameters: {
            query?: {
                dry_run?: components["parameters"]["DryRun"];
            };
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Edict-Principal"?: components["parameters"]["XEdictPrincipal"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Abort"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Waves"];
                };
            };
        };
    };
    promoteRevision: {
        parameters: {
            query?: {
                dry_run?: components["parameters"]["DryRun"];
            };
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Edict-Principal"?: components["parameters"]["XEdictPrincipal"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Promotion"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Waves"];
                };
            };
        };
    };
    getRollout: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit3"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rollout"];
                };
            };
        };
    };
    stageRevision: {
        parameters: {
            query?: {
                dry_run?: components["parameters"]["DryRun"];
            };
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Edict-Principal"?: components["parameters"]["XEdictPrincipal"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Preview"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Waves"];
                };
            };
        };
    };
    diffRevisions: {
        parameters: {
            query: {
                from_revision: components["parameters"]["FromRevision"];
                to_revision: components["parameters"]["ToRevision"];
            };
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Diff"];
                };
            };
        };
    };
    dryRunPolicy: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Preview"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DryRun"];
                };
            };
        };
    };
    listRevisions: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: {
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionPage"];
                };
            };
        };
    };
    getRevision: {
        parameters: {
            query?: never;
            header?: {
                "X-Correlation-Id"?: components["parameters"]["XCorrelationId"];
            };
            path: {
                project: components["parameters"]["Project"];
                policy: components["parameters"]["Policy"];
                revision: components["parameters"]["Revision"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Revision"];
                };
            };
        };
    };
}
