BEGIN TRANSACTION;
CREATE TABLE clusters (
    name             text primary key not null,
    fence            integer not null,
    open             integer,
    wish_cancel      integer not null default 0,
    wish_delete      integer not null default 0,
    document         text not null
) strict;
INSERT INTO "clusters" VALUES('farm',2,2,0,0,'{"name":"farm","state":"scaling","reasons":[],"left":[],"specification":{"name":"farm","zone":"fr-par-1","server_deadline":"10m","wait_deadline":"5m","groups":{"workers":{"count":3,"types":["DEV1-S"],"image":"ubuntu_noble","addresses":["ipv4"],"dynamic_address":false}}},"last_index":{"workers":3},"created_at":1795571834961,"updated_at":1795571843483}');
CREATE TABLE events (
    sequence         integer primary key autoincrement,
    cluster          text not null,
    operation        integer not null,
    at               integer not null,
    what             text not null
) strict;
INSERT INTO "events" VALUES(1,'farm',1,1795571835001,'{"event":"opened","kind":"create","counts":{"workers":{"before":0,"wanted":2}}}');
INSERT INTO "events" VALUES(2,'farm',1,1795571835025,'{"event":"step-began","stage":"validate","step":"ask Scaleway","total":1}');
INSERT INTO "events" VALUES(3,'farm',1,1795571835203,'{"event":"node-done","stage":"validate","step":"ask Scaleway","node":"workers"}');
INSERT INTO "events" VALUES(4,'farm',1,1795571835271,'{"event":"step-began","stage":"servers","step":"create servers","total":2}');
INSERT INTO "events" VALUES(5,'farm',1,1795571836574,'{"event":"node-done","stage":"servers","step":"create servers","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(6,'farm',1,1795571836737,'{"event":"node-done","stage":"servers","step":"create servers","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(7,'farm',1,1795571836751,'{"event":"step-began","stage":"wait","step":"wait for servers","total":2}');
INSERT INTO "events" VALUES(8,'farm',1,1795571836781,'{"event":"node-done","stage":"wait","step":"wait for servers","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(9,'farm',1,1795571836781,'{"event":"node-done","stage":"wait","step":"wait for servers","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(10,'farm',1,1795571836895,'{"event":"step-began","stage":"prepare","step":"look up addresses","total":2}');
INSERT INTO "events" VALUES(11,'farm',1,1795571836898,'{"event":"node-done","stage":"prepare","step":"look up addresses","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(12,'farm',1,1795571836898,'{"event":"node-done","stage":"prepare","step":"look up addresses","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(13,'farm',1,1795571837031,'{"event":"step-began","stage":"configure","step":"run the configure hook","total":2}');
INSERT INTO "events" VALUES(14,'farm',1,1795571837067,'{"event":"node-done","stage":"configure","step":"run the configure hook","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(15,'farm',1,1795571837067,'{"event":"node-done","stage":"configure","step":"run the configure hook","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(16,'farm',1,1795571837110,'{"event":"step-began","stage":"start","step":"run the start hook","total":2}');
INSERT INTO "events" VALUES(17,'farm',1,1795571837123,'{"event":"node-done","stage":"start","step":"run the start hook","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(18,'farm',1,1795571837123,'{"event":"node-done","stage":"start","step":"run the start hook","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(19,'farm',1,1795571837195,'{"event":"closed","state":"done","cluster":"active","reasons":[]}');
INSERT INTO "events" VALUES(20,'farm',2,1795571843536,'{"event":"opened","kind":"scale","counts":{"workers":{"before":2,"wanted":3}}}');
INSERT INTO "events" VALUES(21,'farm',2,1795571843538,'{"event":"step-began","stage":"validate","step":"ask Scaleway","total":1}');
INSERT INTO "events" VALUES(22,'farm',2,1795571843631,'{"event":"node-done","stage":"validate","step":"ask Scaleway","node":"workers"}');
INSERT INTO "events" VALUES(23,'farm',2,1795571843655,'{"event":"step-began","stage":"decommission","step":"run the decommission hook","total":0}');
INSERT INTO "events" VALUES(24,'farm',2,1795571843684,'{"event":"step-began","stage":"resize","step":"create servers","total":1}');
CREATE TABLE fences (last integer not null) strict;
INSERT INTO "fences" VALUES(2);
CREATE TABLE nodes (
    cluster          text not null,
    name             text not null,
    grouping         text not null,
    position         integer not null,
    document         text not null,
    primary key (cluster, name)
) strict, without rowid;
INSERT INTO "nodes" VALUES('farm','farm-workers-1','workers',1,'{"name":"farm-workers-1","group":"workers","index":1,"role":"staying","state":"running","creation":"farm-0nt3zys39nyn","server":"e3272284-804d-4186-aeff-4d3a9aa7ef37","server_type":"DEV1-S","addresses":["198.18.207.246"],"private_addresses":[],"ssh_host_key":null,"decommissioned":false,"configured":true,"started":true,"problem":null}');
INSERT INTO "nodes" VALUES('farm','farm-workers-2','workers',2,'{"name":"farm-workers-2","group":"workers","index":2,"role":"staying","state":"running","creation":"farm-0nt3zy1xy1wk","server":"30084f79-c888-4cee-9a7e-540d2fa139b9","server_type":"DEV1-S","addresses":["198.19.103.118"],"private_addresses":[],"ssh_host_key":null,"decommissioned":false,"configured":true,"started":true,"problem":null}');
INSERT INTO "nodes" VALUES('farm','farm-workers-3','workers',3,'{"name":"farm-workers-3","group":"workers","index":3,"role":"made","state":"creating","creation":"farm-0nt400brd5yp","server":null,"server_type":null,"addresses":[],"private_addresses":[],"ssh_host_key":null,"decommissioned":false,"configured":false,"started":false,"problem":null}');
CREATE TABLE operations (
    cluster          text not null,
    number           integer not null,
    document         text not null,
    primary key (cluster, number)
) strict, without rowid;
INSERT INTO "operations" VALUES('farm',1,'{"number":1,"kind":"create","state":"done","stage":"start","runner":"26037-d3cmnma9yr","policies":[{"component":"aea497a33c9b0c4e4fb97264985080890e59ad93dc1ad24d634887d29cfee1b7","name":"windlass-guest-state-mapping","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"state-mapping","version":"0.1.0"},{"component":"387f3f7e22483b0a303a94fd68c79e4d9aeb2ba9c09de090ed71660dd13c6f16","name":"windlass-guest-retry","settings":"8b4b0b03d28a646b1fcfb3378eed7f7428d0375f1cef886d2b29a51215d91e89","slot":"retry","version":"0.1.0"},{"component":"387f3f7e22483b0a303a94fd68c79e4d9aeb2ba9c09de090ed71660dd13c6f16","name":"windlass-guest-retry","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"retry","version":"0.1.0"},{"component":"eb44b003490e90e19a7af5ea856094ac18eaf9905de2fee17ce0dae636b9a401","name":"windlass-guest-rollback","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"rollback","version":"0.1.0"},{"component":"0e2ecd60d8d00ae97422a2805280c77d6d51414acd648911defe749cdeff7a31","name":"windlass-guest-release","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"release","version":"0.1.0"},{"component":"114b3f5d66a0e83d68f3f33e62d5bb6fea632460649151f2de62549da5bad9d3","name":"windlass-guest-provisioning","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"provisioning","version":"0.1.0"}],"counts":{"workers":{"before":0,"wanted":2}},"force":false,"recovery":null,"reasons":[],"began_at":1795571834961,"ended_at":1795571837195}');
INSERT INTO "operations" VALUES('farm',2,'{"number":2,"kind":"scale","state":"open","stage":"resize","runner":"26600-9wezhbepkb","policies":[{"component":"aea497a33c9b0c4e4fb97264985080890e59ad93dc1ad24d634887d29cfee1b7","name":"windlass-guest-state-mapping","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"state-mapping","version":"0.1.0"},{"component":"387f3f7e22483b0a303a94fd68c79e4d9aeb2ba9c09de090ed71660dd13c6f16","name":"windlass-guest-retry","settings":"8b4b0b03d28a646b1fcfb3378eed7f7428d0375f1cef886d2b29a51215d91e89","slot":"retry","version":"0.1.0"},{"component":"387f3f7e22483b0a303a94fd68c79e4d9aeb2ba9c09de090ed71660dd13c6f16","name":"windlass-guest-retry","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"retry","version":"0.1.0"},{"component":"eb44b003490e90e19a7af5ea856094ac18eaf9905de2fee17ce0dae636b9a401","name":"windlass-guest-rollback","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"rollback","version":"0.1.0"},{"component":"0e2ecd60d8d00ae97422a2805280c77d6d51414acd648911defe749cdeff7a31","name":"windlass-guest-release","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"release","version":"0.1.0"},{"component":"114b3f5d66a0e83d68f3f33e62d5bb6fea632460649151f2de62549da5bad9d3","name":"windlass-guest-provisioning","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"provisioning","version":"0.1.0"}],"counts":{"workers":{"before":2,"wanted":3}},"force":false,"recovery":null,"reasons":[],"began_at":1795571843483,"ended_at":null}');
CREATE INDEX events_by_operation on events (cluster, operation, sequence);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',24);
COMMIT;
pragma user_version = 1;
